import type { Seal, SealKey } from '../seal/keys.js';
import {
  type EngineEntry,
  type EngineHead,
  endCharge,
  framedLength,
  NO_BYTES,
  type ReplyChanges,
  type ReplyLogs,
  UNKNOWN,
} from './logs.js';
import { openProof, ReplySeal, sealProof, type WriterKeys } from './seal.js';

/** Replies that are read, whose keys are remembered. */
const MAX_KNOWN = 1_000;
/** A writer that has not said for so long that it writes is gone, in milliseconds. */
const WRITER_IDLE_MS = 300_000;
/** The place in a list: the key of the account, and what the engine has said. */
const ACCOUNT = 2 ** 44;

/** A reply that is written here. */
interface Writing {
  readonly seal: ReplySeal;
  readonly keys: WriterKeys;
  /** Parts that the engine has taken, and what their sealed records take. */
  parts: number;
  offset: number;
  lastMetadata: number;
  /** Reading of `performance.now()`. */
  usedAt: number;
}

/**
 * Kept replies in an engine that cannot read them, nor whose they are. Owners and names have others in the engine. It sees
 * when a reply began and ended, how many parts it has, and how long they are.
 *
 * A part that was changed, or is not the one that was written there, is refused with `authentication_failed`.
 */
export function sealedReplies(engine: ReplyLogs, keys: Seal): ReplyLogs {
  const written = new Map<string, Writing>();
  const known = new Map<string, ReplySeal>();
  /** Reading of `performance.now()`. */
  let sweptAt = 0;

  /** @throws {ProtocolError} `authentication_failed`. */
  function opened(entry: EngineEntry): EngineEntry {
    const { seal, head } = ReplySeal.open(keys, entry.id, entry.principal);
    remember(entry.id, seal);
    return { ...entry, ...head };
  }

  async function sealOf(id: string): Promise<ReplySeal | undefined> {
    const seal = written.get(id)?.seal ?? known.get(id);
    if (seal !== undefined) return seal;
    const entry = await engine.find(id);
    return entry && remember(id, ReplySeal.open(keys, id, entry.principal).seal);
  }

  function remember(id: string, seal: ReplySeal): ReplySeal {
    const [oldest] = known.keys();
    if (known.size >= MAX_KNOWN && oldest !== undefined) known.delete(oldest);
    known.set(id, seal);
    return seal;
  }

  /** Nothing more is written of it, but it may be read. */
  function finish(id: string, seal: ReplySeal): void {
    if (written.delete(id)) remember(id, seal);
  }

  /** Writers that have given up. */
  function sweep(): void {
    const due = performance.now() - WRITER_IDLE_MS;
    if (sweptAt > due) return;
    sweptAt = performance.now();
    for (const [id, { usedAt }] of written) if (usedAt <= due) written.delete(id);
  }

  return {
    async open(head, bounds, liveMs) {
      const { id, name, share } = head;
      sweep();
      // A call that is repeated has the same keys.
      const writing = written.get(id) ?? begun(ReplySeal.begin(keys, id));
      written.set(id, writing);
      const { seal } = writing;
      const sealed: EngineHead = {
        ...head,
        owner: ownerOf(seal.key, head.owner),
        principal: seal.sealHead(head),
        name: name && nameOf(seal.key, head.owner, name),
        share: share && 'true',
      };
      const outcome = await engine.open(sealed, bounds, liveMs);
      if (outcome !== 'done') written.delete(id);
      return outcome;
    },

    async claim({ id, owner, epoch }, by, liveMs) {
      const seal = await sealOf(id);
      if (seal === undefined) return { outcome: 'gone' };
      const claimed = await engine.claim({ id, owner: ownerOf(seal.key, owner), epoch }, by, liveMs);
      if (claimed.outcome !== 'done') return claimed;
      const { parts, offset } = claimed;
      const pieces = await engine.read(id, parts);
      if (pieces === undefined) return { outcome: 'gone' };
      const lastMetadata = seal.lastMetadata(pieces);
      written.set(id, { ...begun(seal, seal.claim()), parts, offset, lastMetadata });
      return claimed;
    },

    async append(batch, bounds, liveMs) {
      const { id, owner, from, epoch } = batch;
      const writing = written.get(id);
      if (writing === undefined) return (await engine.follow(id))?.hasEnded === true ? 'ended' : 'gone';
      writing.usedAt = performance.now();
      const { seal, keys, offset, parts } = writing;
      // Parts that the engine has are not sealed again: a number is used for one part only.
      if (from !== parts) return from + batch.records.length === parts ? 'done' : 'behind';
      const { records, metadata, lastMetadata } = seal.sealParts(batch, writing.lastMetadata, keys);
      const sealed = { id, owner: ownerOf(seal.key, owner), epoch, from, offset, records, metadata };
      const outcome = await engine.append(sealed, bounds, liveMs);
      // One that is told twice counts once.
      if (outcome === 'done' && writing.parts === parts) {
        writing.parts += records.length;
        writing.offset += records.reduce((sum, record) => sum + framedLength(record), 0);
        writing.lastMetadata = lastMetadata;
      }
      return outcome;
    },

    async end({ end, ...rest }, bounds) {
      const { id, owner, parts } = rest;
      const seal = await sealOf(id);
      if (seal === undefined) return 'gone';
      const metadata = seal.sealEnd(end, parts);
      const sealed = { at: end.at, failure: end.failure && NO_BYTES, metadata };
      // An end that has room has room when it is sealed.
      const more = endCharge(sealed) - endCharge(end);
      const { maxReplyBytes, maxOwnerBytes } = bounds;
      const wider = { ...bounds, maxReplyBytes: maxReplyBytes + more, maxOwnerBytes: maxOwnerBytes + more };
      const key = { id, owner: ownerOf(seal.key, owner) };
      const outcome = await engine.end({ ...rest, ...key, end: sealed }, wider);
      if (outcome !== 'reply_too_large' && outcome !== 'over_budget' && outcome !== 'behind')
        finish(id, seal);
      return outcome;
    },

    async keep({ owner, id, epoch }, liveMs) {
      const writing = written.get(id);
      if (writing !== undefined) writing.usedAt = performance.now();
      const seal = await sealOf(id);
      if (seal === undefined) return { outcome: 'gone' };
      return await engine.keep({ id, owner: ownerOf(seal.key, owner), epoch }, liveMs);
    },

    async drop({ owner, id }) {
      const seal = await sealOf(id);
      if (seal === undefined) return;
      await engine.drop({ id, owner: ownerOf(seal.key, owner) });
      written.delete(id);
      known.delete(id);
    },

    async find(id) {
      const entry = await engine.find(id);
      return entry && opened(entry);
    },

    async named(owner, name) {
      const found = await Promise.all(
        keys.keys.map((key) => engine.named(ownerOf(key, owner), nameOf(key, owner, name))),
      );
      const entries = found.filter((entry) => entry !== undefined).map((entry) => opened(entry));
      return entries.toSorted((a, b) => b.startedAt - a.startedAt)[0];
    },

    async read(id, after) {
      const seal = await sealOf(id);
      const pieces = seal && (await engine.read(id, after));
      return pieces && seal?.openPieces(after, pieces);
    },

    follow: (id) => engine.follow(id),

    /** Of the newest key first, so that it is newest first unless keys are being replaced. */
    async list(owner, before) {
      const account = before === undefined ? 0 : Math.floor(before / ACCOUNT);
      const key = keys.keys[account];
      if (key === undefined) return { entries: [], before: undefined };
      const rest = before === undefined ? 0 : before % ACCOUNT;
      const page = await engine.list(ownerOf(key, owner), rest === 0 ? undefined : rest);
      const isLast = account + 1 >= keys.keys.length;
      const next = isLast ? undefined : (account + 1) * ACCOUNT;
      return {
        entries: page.entries.map((entry) => opened(entry)),
        before: page.before === undefined ? next : account * ACCOUNT + page.before,
      };
    },

    shared: () => engine.shared(),

    watch(id, onChanges) {
      return engine.watch(id, (news) => {
        const seal = written.get(id)?.seal ?? known.get(id);
        onChanges(news === UNKNOWN || seal === undefined ? UNKNOWN : openedChanges(seal, news));
      });
    },

    listen: (by, onEnded) => engine.listen(by, onEnded),

    async vouch(sessionId, owner, hashes, ttlMs) {
      const key = keys.newest;
      const sealed = hashes.map((hash) => hashOf(key, sessionId, hash));
      await engine.vouch(sessionId, sealProof(key, sessionId, owner), sealed, ttlMs);
    },

    async prove(sessionId, hash) {
      for (const key of keys.keys) {
        const proof = await engine.prove(sessionId, hashOf(key, sessionId, hash));
        if (proof !== undefined) return openProof(key, sessionId, proof);
      }
      return undefined;
    },

    close: () => engine.close(),
  };
}

function begun(seal: ReplySeal, keys = seal.first): Writing {
  return { seal, keys, parts: 0, offset: 0, lastMetadata: 0, usedAt: performance.now() };
}

function ownerOf(key: SealKey, owner: string): string {
  return key.nameOf('owner', owner);
}

function nameOf(key: SealKey, owner: string, name: string): string {
  // An ID of a reply is never a name.
  return `~${key.nameOf('name', owner, name)}`;
}

function hashOf(key: SealKey, sessionId: string, hash: string): string {
  return key.nameOf('token', sessionId, hash);
}

/** If a part does not open, the reader reads the record instead, which reports that. */
function openedChanges(
  seal: ReplySeal,
  { from, records }: Exclude<ReplyChanges, typeof UNKNOWN>,
): ReplyChanges {
  try {
    return { from, records: seal.openParts(from, records) };
  } catch {
    return UNKNOWN;
  }
}
