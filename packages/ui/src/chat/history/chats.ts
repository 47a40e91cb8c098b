import { randomName } from '../../shared/profile.js';
import type { Turn } from '../conversation.js';
import { createMemory, type Memory } from '../memory.js';
import { finality, OpenChat } from '../open-chat.js';
import type { Exported } from './export.js';
import { canKeep, isSwitchedOff, rememberChat, rememberedChat, switchOff } from './keeping.js';
import { type ChatRecord, type Library, openLibrary } from './library.js';
import { ownerName } from './owner.js';

/** The chats of a user, and the one that this page shows. */

export interface ChatsEvents {
  /** The turn whose answer this page receives. */
  running(): Turn | undefined;
  /** The list has changed. */
  onList(): void;
  /** Another tab has changed the chat that is shown: these turns, and maybe which are shown. */
  onMerged(changed: readonly Turn[]): void;
  /** The chat that was shown is deleted. */
  onGone(): void;
  /** The chat whose answer this page receives is deleted. */
  onStop(): void;
  /** Chats cannot be kept any more. */
  onFull(): void;
}

/** Until the page is ready for events. */
const UNHEARD: ChatsEvents = {
  running: () => undefined,
  onList() {},
  onMerged() {},
  onGone() {},
  onStop() {},
  onFull() {},
};
const SOON_MS = 250;
const MAX_TITLE = 60;

export class Chats {
  readonly shown = new OpenChat();
  readonly memory: Memory;
  /** @default nothing hears them */
  events = UNHEARD;
  readonly #server: string;
  readonly #recordOf = new WeakMap<Turn, ChatRecord>();
  readonly #removed = new Set<string>();
  /** Chats that are not stored yet. */
  readonly #fresh = new WeakSet<ChatRecord>();
  readonly #due = new Set<Turn>();
  #library: Library | undefined;
  #channel: BroadcastChannel | undefined;
  #record: ChatRecord | undefined;
  #isFull = false;
  #openings = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  private constructor(server: string) {
    this.#server = server;
    this.memory = createMemory(() => this.#forTab());
  }

  /** The chat that this tab showed last, or none. */
  static async load(server: string): Promise<Chats> {
    const chats = new Chats(server);
    await chats.#open();
    await chats.#resume();
    return chats;
  }

  /** Whether chats outlive this tab. */
  get isKept(): boolean {
    return this.#library !== undefined && !isSwitchedOff();
  }

  get openId(): string | undefined {
    return this.#record?.id;
  }

  /** The chat of the answer that this page receives. */
  get runningId(): string | undefined {
    const running = this.events.running();
    return running && this.#recordOf.get(running)?.id;
  }

  async list(): Promise<readonly ChatRecord[]> {
    return this.isKept ? ((await this.#library?.list()) ?? []) : [];
  }

  async search(text: string): Promise<ReadonlySet<string>> {
    return (await this.#library?.search(text)) ?? new Set();
  }

  /** The chats of the user who has just presented a token, or has ceased to. */
  async changeUser(): Promise<void> {
    this.#channel?.close();
    this.#library?.close();
    this.#library = undefined;
    // Questions asked before the browser has opened the other database are kept in that one.
    this.events.onGone();
    await this.#open();
    await this.#keepAll();
    this.events.onList();
  }

  /** Shows no chat: the next question begins one. */
  begin(): void {
    this.#record = undefined;
    this.shown.show([], undefined);
    rememberChat(undefined);
    this.memory.forget();
    this.events.onList();
  }

  /** @returns whether there is such a chat. */
  async show(id: string): Promise<boolean> {
    const found = await this.#library?.read(id);
    if (found === undefined) return false;
    const running = this.events.running();
    const turns = found.turns.map((turn) => (turn.id === running?.id ? running : turn));
    this.shown.show(turns, found.chat.head);
    this.#setRecord(found.chat);
    this.memory.forget();
    this.events.onList();
    return true;
  }

  /** Adds a turn to the chat that is shown, or begins one with it. */
  add(turn: Turn): void {
    this.shown.add(turn);
    if (this.#record === undefined) void this.#keepAll();
    else this.#recordOf.set(turn, this.#record);
  }

  /** Forgets a version that has no answer. */
  async drop(turn: Turn): Promise<void> {
    this.shown.drop(turn);
    this.#due.delete(turn);
    this.#recordOf.delete(turn);
    if (this.#record !== undefined) await this.#library?.drop(this.#record, turn);
  }

  /** Stores a turn, and tells other tabs. */
  async save(turn: Turn): Promise<void> {
    this.memory.save();
    this.#due.delete(turn);
    await this.#write([turn], true);
  }

  /** Takes over the end of an answer that another tab has received. Resolves with whether there is one. */
  async takeEnd(turn: Turn): Promise<boolean> {
    const record = this.#recordOf.get(turn);
    const found = record && (await this.#library?.read(record.id));
    const stored = found?.turns.find(({ id }) => id === turn.id);
    if (stored === undefined || finality(stored) <= finality(turn)) return false;
    Object.assign(turn, stored);
    return true;
  }

  /** Stores a turn soon; for calls with each part of an answer. */
  saveSoon(turn: Turn): void {
    this.memory.saveSoon();
    this.#due.add(turn);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const due = [...this.#due];
      this.#due.clear();
      void this.#write(due, false);
    }, SOON_MS);
  }

  /** Stores which version is shown. */
  saveHead(): void {
    this.memory.save();
    void this.#write([], true);
  }

  async rename(id: string, title: string): Promise<void> {
    const record = id === this.#record?.id ? this.#record : (await this.#library?.read(id))?.chat;
    if (record === undefined || title === '') return;
    record.title = title;
    record.isNamed = true;
    await this.#library?.write(record, []);
    this.#announce(id);
  }

  /** Deletes chats. Resolves with a function that brings them back. */
  async remove(ids: readonly string[]): Promise<() => Promise<void>> {
    const library = this.#library;
    if (library === undefined) return async () => {};
    if (ids.includes(this.runningId ?? '')) this.events.onStop();
    for (const id of ids) this.#removed.add(id);
    const removed = await library.remove(ids);
    const open = ids.find((id) => id === this.#record?.id);
    if (open !== undefined) this.events.onGone();
    for (const id of ids) this.#announce(id);
    return async () => {
      for (const id of ids) this.#removed.delete(id);
      await library.putBack(removed);
      for (const id of ids) this.#announce(id);
      if (open !== undefined && this.#record === undefined) await this.show(open);
    };
  }

  /** Keeps all chats from now on, or none: then those that were kept are deleted. Resolves with a function that undoes it. */
  async setKept(isKept: boolean): Promise<() => Promise<void>> {
    if (isKept) {
      switchOff(false);
      await this.#keepAll();
      this.events.onList();
      return async () => {};
    }
    const record = this.#record;
    // The shown turns stay in this tab.
    this.#setRecord(undefined);
    for (const turn of this.shown.all) this.#recordOf.delete(turn);
    switchOff(true);
    this.memory.save();
    const putBack = await this.remove(await this.#ids());
    this.events.onList();
    return async () => {
      switchOff(false);
      await putBack();
      if (this.#record === undefined && record !== undefined) this.#setRecord(record);
      await this.#keepAll();
      this.events.onList();
    };
  }

  async exported(id: string): Promise<Exported | undefined> {
    const found = await this.#library?.read(id);
    if (found === undefined) return undefined;
    const chat = new OpenChat();
    chat.show(found.turns, found.chat.head);
    const { path } = id === this.#record?.id ? this.shown : chat;
    return { ...found, shown: path.map((turn) => turn.id) };
  }

  /** A kept chat is loaded from the store: the tab need only know what may not have arrived there. */
  #forTab(): readonly Turn[] {
    const { path } = this.shown;
    return this.#record !== undefined && this.isKept && !this.#isFull ? path.slice(-1) : path;
  }

  async #open(): Promise<void> {
    if (!canKeep()) return;
    try {
      const opening = ++this.#openings;
      const name = await ownerName(this.#server);
      if (name === undefined) return;
      const library = await openLibrary(name);
      // Another token was entered meanwhile.
      if (opening !== this.#openings) return library.close();
      this.#library = library;
      // The page may have been left before all of them were deleted.
      if (isSwitchedOff()) await this.#library.remove(await this.#ids());
      this.#channel = new BroadcastChannel(name);
      this.#channel.addEventListener('message', ({ data }) => void this.#hear(data));
    } catch (error) {
      console.info('chats will not outlive this tab:', error);
    }
  }

  async #ids(): Promise<string[]> {
    return ((await this.#library?.list()) ?? []).map(({ id }) => id);
  }

  async #resume(): Promise<void> {
    const id = rememberedChat();
    const ofTab = this.memory.turns ?? [];
    const found = id === undefined || isSwitchedOff() ? undefined : await this.#library?.read(id);
    if (found === undefined) {
      // A chat that had a name and is not there any more was deleted.
      if (id === undefined || !this.isKept) this.shown.adopt(ofTab);
      else this.memory.forget();
      return await this.#keepAll();
    }
    const turns = found.turns.map((turn) => {
      const mine = ofTab.find((each) => each.id === turn.id);
      const isNewer = mine !== undefined && finality(mine) >= finality(turn);
      return isNewer && mine.answer.length >= turn.answer.length ? mine : turn;
    });
    const unknown = ofTab.filter(({ id: each }) => turns.every((turn) => turn.id !== each));
    this.shown.show([...turns, ...unknown], ofTab.at(-1)?.id ?? found.chat.head);
    this.#setRecord(found.chat);
  }

  #setRecord(record: ChatRecord | undefined): void {
    this.#record = record;
    rememberChat(record?.id);
    if (record !== undefined) for (const turn of this.shown.all) this.#recordOf.set(turn, record);
  }

  /** Begins to keep what is shown, once the user has asked something. */
  async #keepAll(): Promise<void> {
    const asked = this.shown.path.find(({ question }) => question !== undefined);
    if (!this.isKept || asked === undefined) return;
    if (this.#record === undefined) {
      const [title = ''] = (asked.question ?? '').trim().split('\n');
      const now = Date.now();
      const fresh: ChatRecord = {
        id: randomName(),
        title: title.slice(0, MAX_TITLE),
        isNamed: false,
        createdAt: now,
        changedAt: now,
        head: undefined,
      };
      this.#fresh.add(fresh);
      this.#setRecord(fresh);
    }
    await this.#write(this.shown.all, true);
  }

  async #write(turns: readonly Turn[], isTold: boolean): Promise<void> {
    const library = this.#library;
    if (library === undefined || isSwitchedOff()) return;
    const record = turns[0] === undefined ? this.#record : this.#recordOf.get(turns[0]);
    if (record === undefined || this.#removed.has(record.id)) return;
    const known = turns.filter((turn) => this.#recordOf.get(turn) === record && turn.state !== 'elsewhere');
    if (record === this.#record) record.head = this.shown.last?.id;
    // Changes after the end, such as figures, are nothing new.
    if (known.length > 0 && isTold) record.changedAt = Date.now();
    try {
      await library.write(record, known, this.#fresh.has(record));
      this.#fresh.delete(record);
      if (isTold) this.#announce(record.id);
    } catch (error) {
      console.info('a chat could not be stored:', error);
      if (this.#isFull) return;
      this.#isFull = true;
      // The next page of this tab has all of it from the tab.
      rememberChat(undefined);
      this.memory.save();
      this.events.onFull();
    }
  }

  #announce(chat: string): void {
    this.#channel?.postMessage({ chat });
    this.events.onList();
  }

  async #hear(data: unknown): Promise<void> {
    const { chat } = (data ?? {}) as { readonly chat?: unknown };
    this.events.onList();
    const record = this.#record;
    if (record === undefined || record.id !== chat) return;
    await this.refresh();
  }

  /** Takes over what other tabs have stored of the chat that is shown. */
  async refresh(): Promise<void> {
    const record = this.#record;
    if (record === undefined) return;
    const found = await this.#library?.read(record.id);
    if (record !== this.#record) return;
    if (found === undefined) return this.events.onGone();
    const running = this.events.running();
    const isShown = running !== undefined && this.#recordOf.get(running) === record;
    const changed = this.shown.merge(found.turns, found.chat.head, isShown ? running : undefined);
    this.#setRecord(Object.assign(record, found.chat));
    this.events.onMerged(changed);
  }
}
