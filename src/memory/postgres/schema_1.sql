-- One row: whose tokens are compared, and the version of all this.
CREATE TABLE redfence_store (
  id             integer PRIMARY KEY CHECK (id = 0),
  schema_version bigint NOT NULL,
  backend        text
);
INSERT INTO redfence_store (id, schema_version) VALUES (0, 1);

-- A key that was ever written, or shown a token. A row stays when its value is removed: its version goes on counting.
CREATE TABLE redfence_value (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key     text COLLATE "C" NOT NULL UNIQUE,
  value   bytea,                        -- null: removed, or not written yet
  version bigint NOT NULL DEFAULT 0,
  seen    numeric(20)                   -- the largest token seen
);

-- The latest changes of each value, by the version that each made.
CREATE TABLE redfence_operation (
  value_id  bigint NOT NULL,
  version   bigint NOT NULL,
  operation bytea NOT NULL,
  PRIMARY KEY (value_id, version),
  UNIQUE (value_id, operation)
);

-- The lock that a move to another back end takes alone, and every access with a token shares. It ends with the transaction.
CREATE FUNCTION redfence_moving() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 8242550271131771237';

-- Whose tokens are compared: those of the back end that is shown, if none has been shown before.
CREATE FUNCTION redfence_backend(shown text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  stored text;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(redfence_moving());
  SELECT s.backend INTO stored FROM redfence_store s;
  IF stored IS NULL THEN
    -- Of two first ones, the second waits here and finds that it is not the first.
    UPDATE redfence_store s SET backend = shown WHERE s.backend IS NULL;
    SELECT s.backend INTO stored FROM redfence_store s;
  END IF;
  RETURN stored;
END $$;

-- The row of a key, made if need be, and nobody else's until the end of the transaction.
CREATE FUNCTION redfence_lock(at text, OUT id bigint, OUT version bigint, OUT seen numeric) LANGUAGE plpgsql AS $$
BEGIN
  SELECT v.id, v.version, v.seen INTO id, version, seen FROM redfence_value v WHERE v.key = at FOR UPDATE;
  IF NOT FOUND THEN
    INSERT INTO redfence_value (key) VALUES (at) ON CONFLICT DO NOTHING;
    SELECT v.id, v.version, v.seen INTO id, version, seen FROM redfence_value v WHERE v.key = at FOR UPDATE;
  END IF;
END $$;

-- Answers 'other' with a back end, 'fenced' with a token, or 'at' with version and value.
CREATE FUNCTION redfence_read(
  at text, token numeric, shown text, OUT answer text, OUT said text, OUT version bigint, OUT value bytea
) LANGUAGE plpgsql AS $$
DECLARE
  entry record;
BEGIN
  said := redfence_backend(shown);
  IF said <> shown THEN
    answer := 'other';
    RETURN;
  END IF;
  entry := redfence_lock(at);
  IF token < entry.seen THEN
    answer := 'fenced';
    said := entry.seen;
    RETURN;
  END IF;
  IF entry.seen IS NULL OR token > entry.seen THEN
    UPDATE redfence_value v SET seen = token WHERE v.id = entry.id;
  END IF;
  answer := 'at';
  SELECT v.version, v.value INTO version, value FROM redfence_value v WHERE v.id = entry.id;
END $$;

-- Answers as a read does, or 'applied' with the version. `token` and `expected` are null where nothing is to be compared.
CREATE FUNCTION redfence_write(
  at text, token numeric, shown text, expected bigint, wanted bytea, change bytea,
  OUT answer text, OUT said text, OUT version bigint, OUT value bytea
) LANGUAGE plpgsql AS $$
DECLARE
  entry record;
BEGIN
  IF token IS NOT NULL THEN
    said := redfence_backend(shown);
    IF said <> shown THEN
      answer := 'other';
      RETURN;
    END IF;
  END IF;
  entry := redfence_lock(at);
  SELECT o.version INTO version FROM redfence_operation o WHERE o.value_id = entry.id AND o.operation = wanted;
  IF FOUND THEN
    answer := 'applied';
    RETURN;
  END IF;
  IF token < entry.seen THEN
    answer := 'fenced';
    said := entry.seen;
    RETURN;
  END IF;
  IF token IS NOT NULL AND (entry.seen IS NULL OR token > entry.seen) THEN
    UPDATE redfence_value v SET seen = token WHERE v.id = entry.id;
  END IF;
  IF expected <> entry.version THEN
    answer := 'at';
    SELECT v.version, v.value INTO version, value FROM redfence_value v WHERE v.id = entry.id;
    RETURN;
  END IF;
  answer := 'applied';
  version := entry.version + 1;
  UPDATE redfence_value v SET value = change, version = entry.version + 1 WHERE v.id = entry.id;
  INSERT INTO redfence_operation (value_id, version, operation) VALUES (entry.id, entry.version + 1, wanted);
  DELETE FROM redfence_operation o WHERE o.value_id = entry.id AND o.version <= entry.version + 1 - 1024;
END $$;

-- Answers null if it is done, else whose tokens are compared.
CREATE FUNCTION redfence_change_backend(leaving text, entering text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  stored text;
BEGIN
  PERFORM pg_advisory_xact_lock(redfence_moving());
  SELECT s.backend INTO stored FROM redfence_store s FOR UPDATE;
  IF stored = entering THEN
    RETURN NULL;
  END IF;
  IF stored <> leaving THEN
    RETURN stored;
  END IF;
  UPDATE redfence_store s SET backend = entering;
  UPDATE redfence_value v SET seen = NULL WHERE v.seen IS NOT NULL;
  RETURN NULL;
END $$;
