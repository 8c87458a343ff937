// Locks with node-redlock, version 4 or 5, for tests/interop: words in, JSON lines out.
//
//   node_redlock.mjs acquire --nodes URL,URL,.. --resource R --ttl MS --version 4|5
//       tries once; when acquired, obeys lines on standard input: `release`; at their end it leaves without a release
//   node_redlock.mjs release --nodes URL,URL,.. --resource R --value V --version 4|5
//
// The packages are looked for in the folder that REDFENCE_INTEROP_NODE names.

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

const require = createRequire(join(process.env.REDFENCE_INTEROP_NODE, 'anchor.js'));
const Redis = require('ioredis');

const say = (event, facts = {}) => console.log(JSON.stringify({ event, ...facts }));

// One try: whoever runs this decides whether to try again.
const SETTINGS = { retryCount: 0 };

/** The two versions behind one face. */
const versions = {
  4(clients) {
    const Redlock = require('redlock-4');
    const locks = new Redlock(clients, SETTINGS);
    return {
      acquire: (resource, ttl) => locks.lock(resource, ttl),
      release: (lock) => locks.unlock(lock),
      known: (resource, value) => new Redlock.Lock(locks, resource, value, Date.now() + 60_000, 0),
      // Version 4 has one class for everything that went wrong.
      refused: (error) => error instanceof Redlock.LockError,
    };
  },
  5(clients) {
    const { default: Redlock, ExecutionError, Lock } = require('redlock');
    const locks = new Redlock(clients, SETTINGS);
    return {
      acquire: (resource, ttl) => locks.acquire([resource], ttl),
      release: (lock) => locks.release(lock),
      known: (resource, value) => new Lock(locks, [resource], value, [], Date.now() + 60_000),
      refused: (error) => error instanceof ExecutionError,
    };
  },
};

/**
 * Version 5 answers at a quorum and leaves the other nodes to the background, a second round to load a script included. A
 * service lives on and finishes that; so does this process before it says anything. Replies keep the order of requests.
 */
async function settle(clients) {
  const rounds = async (client) => {
    for (let i = 0; i < 3; i += 1) await client.ping();
  };
  const limit = new Promise((resolve) => setTimeout(resolve, 1_000));
  await Promise.race([Promise.allSettled(clients.map(rounds)), limit]);
}

async function hold(locks, lock, clients) {
  await settle(clients);
  say('acquired', { value: lock.value, validity_ms: lock.expiration - Date.now() });
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() === 'release') {
      await locks.release(lock);
      await settle(clients);
      say('released');
      return;
    }
    say('error', { reason: `no such order: ${line}` });
  }
}

async function acquire(locks, { resource, ttl }, clients) {
  let lock;
  try {
    lock = await locks.acquire(resource, Number(ttl));
  } catch (error) {
    if (!locks.refused(error)) throw error;
    await settle(clients);
    say('refused', { reason: error.message });
    return;
  }
  await hold(locks, lock, clients);
}

async function release(locks, { resource, value }, clients) {
  try {
    await locks.release(locks.known(resource, value));
  } catch (error) {
    if (!locks.refused(error)) throw error;
    await settle(clients);
    say('refused', { reason: error.message });
    return;
  }
  await settle(clients);
  say('released');
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      nodes: { type: 'string' },
      resource: { type: 'string' },
      ttl: { type: 'string', default: '10000' },
      value: { type: 'string' },
      version: { type: 'string', default: '5' },
    },
  });
  const clients = values.nodes.split(',').map((url) => new Redis(url));
  // A node that is down is the lock's business; without a listener each failure is printed.
  clients.forEach((client) => client.on('error', () => {}));
  const locks = versions[values.version](clients);
  if (positionals[0] === 'acquire') {
    await acquire(locks, values, clients);
  } else {
    await release(locks, values, clients);
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    say('error', { reason: `${error.name}: ${error.message}` });
    process.exit(1);
  },
);
