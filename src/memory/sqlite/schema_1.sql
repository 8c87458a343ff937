-- One row: whose tokens are compared, and how long embeddings are.
CREATE TABLE store (
  id        INTEGER PRIMARY KEY CHECK (id = 0),
  backend   TEXT,
  dimension INTEGER
) STRICT;
INSERT INTO store (id) VALUES (0);

-- A key that was ever written, or shown a token. A row stays when its value is removed: its version goes on counting.
CREATE TABLE entry (
  id      INTEGER PRIMARY KEY,
  key     TEXT NOT NULL UNIQUE,
  value   BLOB,                 -- NULL: removed, or not written yet
  version INTEGER NOT NULL
) STRICT;

-- The largest token seen. Beside the value, so that a read which raises it does not write a large value anew.
CREATE TABLE mark (
  entry INTEGER PRIMARY KEY,
  token INTEGER NOT NULL        -- as 64 bits without sign
) STRICT;

-- The latest changes of each entry, by the version that each made.
CREATE TABLE operation (
  entry     INTEGER NOT NULL,
  version   INTEGER NOT NULL,
  operation BLOB NOT NULL,
  PRIMARY KEY (entry, version),
  UNIQUE (entry, operation)
) STRICT, WITHOUT ROWID;
