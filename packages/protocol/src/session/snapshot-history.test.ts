import { beforeAll, describe, expect, it } from 'vitest';
import { runMoveHistory } from '../testing/move-history.js';
import { SWAP_FAULTS } from '../testing/swaps.js';
import { platform } from '../testing/this-platform.js';
import { decodeSnapshot, encodeSnapshot } from './snapshot.js';

/** `MOVE_SEED=N MOVE_HISTORIES=1` repeats a history that has failed. */
const HISTORIES = Number(process.env['MOVE_HISTORIES'] ?? 25);
const SEED = Number(process.env['MOVE_SEED'] ?? Date.now() % 2 ** 31);

const MUTANT_HISTORIES = 60;

beforeAll(() => platform.loadZstd());

describe('a session that moves between processes', () => {
  it(`delivers everything once and in order, in ${HISTORIES} histories from seed ${SEED}`, {
    timeout: 600_000,
  }, () => {
    let moves = 0;
    const counts = new Map<string, number>();
    for (let seed = SEED; seed < SEED + HISTORIES; seed++) {
      const outcome = runMoveHistory({
        seed,
        onMoved: (before, after) => expect(Buffer.compare(before, after), `seed ${seed}`).toBe(0),
      });
      expect(outcome.faults, `seed ${seed}`).toEqual([]);
      moves += outcome.moves;
      for (const [name, count] of outcome.counts) counts.set(name, (counts.get(name) ?? 0) + count);
    }
    console.log(`${moves} moves: ${JSON.stringify([...counts])}`);
    if (HISTORIES < 10) return;
    expect(moves).toBeGreaterThan(HISTORIES * 10);
    for (const what of ['cancel', 'reload', 'cut', 'moved while suspended', 'arrived in context'])
      expect(counts.get(what) ?? 0, what).toBeGreaterThan(0);
  });
});

describe('a session whose client changes to another connection', () => {
  it(`delivers everything once and in order, in ${HISTORIES} histories from seed ${SEED}`, {
    timeout: 600_000,
  }, () => {
    let swaps = 0;
    for (let seed = SEED; seed < SEED + HISTORIES; seed++) {
      const { faults, counts } = runMoveHistory({ seed, swaps: true });
      expect(faults, `seed ${seed}`).toEqual([]);
      swaps += counts.get('swap') ?? 0;
    }
    console.log(`${swaps} swaps`);
    if (HISTORIES >= 10) expect(swaps).toBeGreaterThan(HISTORIES);
  });

  it.each(SWAP_FAULTS)('breaks if %s', (swaps) => {
    for (let seed = 1; seed <= MUTANT_HISTORIES; seed++)
      if (runMoveHistory({ seed, swaps }).faults.length > 0) return;
    expect.unreachable(`${MUTANT_HISTORIES} histories have noticed nothing`);
  });
});

/** Restores that forget one part. Each makes histories fail, without a look at what was restored. */
const FORGETFUL: Readonly<Record<string, (fields: Plain) => void>> = {
  'the tokens': (fields) => Object.assign(fields, { resume: ['another', null, 0, false] }),
  'the attempt': ({ resume }) => replace(resume, 2, Number.MAX_SAFE_INTEGER),
  'that the session is suspended': (fields) => forget(fields, 'left'),
  'the last stream IDs': ({ link }) => Object.assign(link.streams, { last: [0, 0] }),
  'open streams': ({ link }) => forget(link.streams, 'open'),
  'that a stream is cancelled': ({ link }) => each(link.streams.open, (stream) => replace(stream, 1, 0)),
  'credit that was spent': ({ link }) => forget(link, 'spent'),
  'credit that was granted': ({ link }) => forget(link.granted, 'accounts'),
  'credit that the application has consumed': ({ link }) =>
    each(link.granted.accounts, (account) => replace(account, 2, 0)),
  'the count of received frames': ({ link }) => Object.assign(link, { received: [0, 0, 0, null] }),
  'when to acknowledge': ({ link }) => replace(link.received, 3, null),
  'the count of acknowledged frames': ({ link }) => Object.assign(link, { confirmed: 0 }),
  'unfinished bodies': ({ link }) => forget(link, 'partial'),
  'the bytes of unfinished bodies': ({ link }) =>
    each(link.partial, (body) => replace(body, 6, new Uint8Array(1))),
  'names of the peer': ({ link }) => forget(link, 'names'),
  'the next name of this end': ({ link }) => replace(link.aliases, 0, 0),
  'the context to the client': ({ link }) => forget(link.context, 'sent'),
  'the context to the server': ({ link }) => forget(link.context, 'received'),
  'the last part of a stream to the client': ({ link }) => forget(link.context?.['sent'], 'streams'),
  'the last part of a stream to the server': ({ link }) => forget(link.context?.['received'], 'streams'),
  'the CRC of a stream': ({ link }) =>
    each(link.context?.['sent']?.streams, (stream) => replace(stream, 1, 0)),
  'bodies in context to the client': ({ link }) => forget(link.context?.['sent'], 'under_way', 'offers'),
  'offers under way': ({ link }) => forget(link.context?.['sent'], 'offers'),
  'the order of bases': ({ link }) => link.context?.['sent']?.bases.reverse(),
  'the count of written frames': ({ link }) =>
    Object.assign(link, {
      confirmed: 0,
      outbox: { ...link.outbox, written: 0, frames: undefined, kept: undefined },
    }),
  'frames that are not acknowledged': ({ link }) => forgetFrames(link),
  'messages for a rebuilt link': ({ link }) => forget(link.outbox, 'kept'),
  'control frames': ({ link }) => forget(link.outbox, 'control'),
  'queued bodies': ({ link }) => forget(link.outbox, 'lanes'),
  'where a body was cut': ({ link }) => each(link.outbox.lanes, (lane) => replace(lane, 1, 0)),
  'the order of a queue': ({ link }) =>
    each(link.outbox.lanes, (lane) => void lane.push(...lane.splice(3).reverse())),
  'ends and errors that are queued': ({ link }) => forgetEnds(link),
  'who a message is for': ({ link }) => eachBody(link, (body) => replace(body, 6, null)),
  'messages of former pages': (fields) => forget(fields, 'former'),
};

/** Restores that cost bytes, or that let a peer do more than it may, and break nothing between two honest ends. */
const HARMLESS: typeof FORGETFUL = {
  'names of this end': ({ link }) => forget(link, 'aliases'),
  'closed streams with frames to write': ({ link }) => forget(link.streams, 'unwritten'),
  'by how much credit may grow': ({ link }) => Object.assign(link.granted, { pool: 0 }),
  'which stream has a permit': ({ link }) => forget(link.granted, 'permitted'),
  'counters of sent bodies': ({ link }) => forget(link.outbox, 'sent'),
  'levels of rates': (fields) => Object.assign(fields, { rates: [] }),
  'the age of the last data': (fields) => Object.assign(fields, { idle: 0 }),
  'which bytes were received since the last acknowledgement': ({ link }) => replace(link.received, 2, 0),
};

interface Plain {
  readonly resume: unknown[];
  readonly link: {
    readonly streams: { readonly open?: unknown[][] };
    readonly granted: { readonly accounts?: unknown[][] };
    readonly received: unknown[];
    readonly partial?: unknown[][];
    readonly aliases?: unknown[];
    readonly context?: Readonly<
      Record<string, { readonly bases: unknown[]; readonly streams?: unknown[][] }>
    >;
    readonly outbox: { readonly lanes?: unknown[][] };
  };
}

function each<Item>(items: readonly Item[] | undefined, change: (item: Item) => void): void {
  for (const item of items ?? []) change(item);
}

function forget(fields: object | undefined, ...names: readonly string[]): void {
  for (const name of names) if (fields !== undefined) Reflect.set(fields, name, undefined);
}

function replace(list: unknown[] | undefined, at: number, value: unknown): void {
  if (list !== undefined && list.length > at) list[at] = value;
}

/** As if everything that was written had been acknowledged. */
function forgetFrames(link: Plain['link']): void {
  Object.assign(link, { confirmed: Reflect.get(link.outbox, 'written') });
  forget(link.outbox, 'frames', 'kept', 'replay');
}

function forgetEnds({ outbox }: Plain['link']): void {
  const lanes = outbox.lanes?.map((lane) => lane.filter((item) => !(item instanceof Uint8Array)));
  Object.assign(outbox, { lanes: lanes?.filter(({ length }) => length > 3) });
}

function eachBody({ outbox }: Plain['link'], change: (body: unknown[]) => void): void {
  for (const lane of outbox.lanes ?? []) for (const item of lane) if (Array.isArray(item)) change(item);
}

describe('a restore that forgets a part', () => {
  const damaged = (snapshot: Uint8Array, damage: (fields: Plain) => void) => {
    const fields = decodeSnapshot(snapshot);
    damage(fields as unknown as Plain);
    return encodeSnapshot({ ...fields });
  };

  it.each(Object.entries(FORGETFUL))('breaks the session: %s', (_, damage) => {
    for (let seed = 1; seed <= MUTANT_HISTORIES; seed++) {
      const change = (snapshot: Uint8Array) => damaged(snapshot, damage);
      if (runMoveHistory({ seed, change }).faults.length > 0) return;
    }
    expect.unreachable(`${MUTANT_HISTORIES} histories have noticed nothing`);
  });

  it.each(Object.entries(HARMLESS))('gives another snapshot: %s', (_, damage) => {
    let noticed = 0;
    const onMoved = (before: Uint8Array, after: Uint8Array) => {
      if (Buffer.compare(before, after) !== 0) noticed++;
    };
    for (let seed = 1; seed <= MUTANT_HISTORIES && noticed === 0; seed++)
      runMoveHistory({ seed, change: (snapshot) => damaged(snapshot, damage), onMoved });
    expect(noticed).toBeGreaterThan(0);
  });
});
