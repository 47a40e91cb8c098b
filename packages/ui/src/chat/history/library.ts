import { type DBSchema, type IDBPDatabase, openDB } from 'idb';
import type { Turn } from '../conversation.js';
import { finality } from '../open-chat.js';
import { readTurns } from '../stored.js';

/** The chats of one user in this browser, in its IndexedDB. */

export interface ChatRecord {
  readonly id: string;
  title: string;
  /** The user has given it. */
  isNamed: boolean;
  /** Unix milliseconds. */
  readonly createdAt: number;
  changedAt: number;
  /** The ID of the turn that was shown last. */
  head: string | undefined;
}

/** Everything of some chats. */
export interface Contents {
  readonly chats: readonly ChatRecord[];
  readonly turns: readonly StoredTurn[];
}

export type StoredTurn = Turn & { readonly chat: string };

export interface Library {
  /** The chat that was changed last comes first. */
  list(): Promise<ChatRecord[]>;
  /** `undefined` if there is no such chat. */
  read(id: string): Promise<{ readonly chat: ChatRecord; readonly turns: readonly Turn[] } | undefined>;
  /**
   * Stores a chat, and these of its turns, unless another tab has stored more of them.
   *
   * @param isNew without it, a chat that is not there was deleted, and stays so.
   */
  write(chat: ChatRecord, turns: readonly Turn[], isNew?: boolean): Promise<void>;
  drop(chat: ChatRecord, turn: Turn): Promise<void>;
  /** Deletes chats. Resolves with what {@link putBack} needs. */
  remove(ids: readonly string[]): Promise<Contents>;
  putBack(contents: Contents): Promise<void>;
  /** The IDs of the chats in which this text occurs, in whatever case. */
  search(text: string): Promise<ReadonlySet<string>>;
  close(): void;
}

interface Schema extends DBSchema {
  chats: { key: string; value: ChatRecord };
  turns: { key: [string, string]; value: StoredTurn };
}

/** @throws what the browser throws if it blocks storage. */
export async function openLibrary(name: string): Promise<Library> {
  const db: IDBPDatabase<Schema> = await openDB<Schema>(name, 1, {
    upgrade(fresh) {
      fresh.createObjectStore('chats', { keyPath: 'id' });
      fresh.createObjectStore('turns', { keyPath: ['chat', 'id'] });
    },
  });
  const turnsOf = (id: string) => IDBKeyRange.bound([id], [id, []]);

  return {
    async list() {
      const chats = await db.getAll('chats');
      return chats.filter(isRecord).sort((a, b) => b.changedAt - a.changedAt);
    },

    async read(id) {
      const tx = db.transaction(['chats', 'turns']);
      const [chat, turns] = await Promise.all([
        tx.objectStore('chats').get(id),
        tx.objectStore('turns').getAll(turnsOf(id)),
        tx.done,
      ]);
      return isRecord(chat) ? { chat, turns: inOrder(readTurns(turns)) } : undefined;
    },

    async write(chat, turns, isNew = false) {
      const tx = db.transaction(['chats', 'turns'], 'readwrite');
      const isThere = (await tx.objectStore('chats').getKey(chat.id)) !== undefined;
      if (!isThere && !isNew) return await tx.done;
      const writing = turns.map(async (turn) => {
        const store = tx.objectStore('turns');
        const present = await store.get([chat.id, turn.id]);
        if (present === undefined || finality(present) <= finality(turn))
          await store.put({ ...turn, chat: chat.id });
      });
      await Promise.all([tx.objectStore('chats').put(chat), ...writing, tx.done]);
    },

    async drop(chat, turn) {
      await db.delete('turns', [chat.id, turn.id]);
    },

    async remove(ids) {
      const tx = db.transaction(['chats', 'turns'], 'readwrite');
      const [chatStore, turnStore] = [tx.objectStore('chats'), tx.objectStore('turns')];
      const chats: ChatRecord[] = [];
      const turns: StoredTurn[] = [];
      for (const id of ids) {
        const chat = await chatStore.get(id);
        if (chat !== undefined) chats.push(chat);
        turns.push(...(await turnStore.getAll(turnsOf(id))));
        await chatStore.delete(id);
        await turnStore.delete(turnsOf(id));
      }
      await tx.done;
      return { chats, turns };
    },

    async putBack({ chats, turns }) {
      const tx = db.transaction(['chats', 'turns'], 'readwrite');
      await Promise.all([
        ...chats.map((chat) => tx.objectStore('chats').put(chat)),
        ...turns.map((turn) => tx.objectStore('turns').put(turn)),
        tx.done,
      ]);
    },

    async search(text) {
      const wanted = text.toLowerCase();
      const [chats, turns] = await Promise.all([db.getAll('chats'), db.getAll('turns')]);
      const has = (said: string | undefined) => said?.toLowerCase().includes(wanted) === true;
      return new Set([
        ...chats.filter(({ title }) => has(title)).map(({ id }) => id),
        ...turns.filter(({ question, answer }) => has(question) || has(answer)).map(({ chat }) => chat),
      ]);
    },

    close: () => db.close(),
  };
}

function inOrder(turns: readonly Turn[]): Turn[] {
  return [...turns].sort((a, b) => a.asked - b.asked || (a.id < b.id ? -1 : 1));
}

/** Another version of this page may have stored something else. */
function isRecord(value: unknown): value is ChatRecord {
  const { id, title, createdAt, changedAt } = (value ?? {}) as Partial<ChatRecord>;
  return (
    typeof id === 'string' &&
    typeof title === 'string' &&
    Number.isFinite(createdAt) &&
    Number.isFinite(changedAt)
  );
}
