import { keyOf, textsOf } from '../base/keys.js';
import type { RoomRequest } from './engine.js';
import { Expiring } from './expiring.js';
import type { RoomItem } from './store.js';

interface Room {
  readonly account: string;
  readonly bytes: number;
  /** Milliseconds of the clock. */
  readonly endsAt: number;
}

/** Bytes that the records of sessions of each principal have reserved, within one process. */
export class MemoryRooms {
  readonly #rooms: Expiring<Room>;
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
    this.#rooms = new Expiring(now);
  }

  reserve(account: string, sessionId: string, { bytes, maxBytes, ttlMs }: RoomRequest): number | undefined {
    const key = keyOf(account, sessionId);
    let others = 0;
    for (const [each, room] of this.#rooms)
      if (each !== key && room.account === account) others += room.bytes;
    const old = this.#rooms.get(key)?.bytes ?? 0;
    if (bytes > old && others + bytes > maxBytes) return undefined;
    const reserved = Math.max(old, bytes);
    this.#rooms.set(key, { account, bytes: reserved, endsAt: this.#now() + ttlMs });
    return reserved;
  }

  release(account: string, sessionId: string): void {
    this.#rooms.delete(keyOf(account, sessionId));
  }

  *exports(): Generator<RoomItem> {
    for (const [key, { account, bytes, endsAt }] of this.#rooms)
      yield { kind: 'room', account, session: textsOf(key)[1] ?? '', bytes, ttlMs: endsAt - this.#now() };
  }
}
