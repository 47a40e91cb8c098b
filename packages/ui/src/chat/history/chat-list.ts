import { byId, create } from '../../shared/dom.js';
import { count } from '../../shared/format.js';
import { createPainter } from '../../shared/paint.js';
import { forgetTab, readToken } from '../../shared/profile.js';
import { createChatMenu } from './chat-menu.js';
import type { Chats } from './chats.js';
import { canKeep } from './keeping.js';
import type { ChatRecord } from './library.js';
import { createUndo } from './undo.js';

/** The list of chats beside the one that is shown. */
export interface ChatList {
  /** Shows changes of the list. */
  update(): void;
  /** Lets the user search. */
  search(): void;
}

export interface ChatListEvents {
  onOpen(id: string): void;
  /** A chat that was deleted is shown again. */
  onShown(): void;
}

const SEARCH_MS = 200;
const DAY_MS = 86_400_000;

export function createChatList(chats: Chats, { onOpen, onShown }: ChatListEvents): ChatList {
  const nav = byId('chats');
  const opener = byId<HTMLButtonElement>('chats-open');
  const search = byId<HTMLInputElement>('chat-search');
  const list = byId('chat-list');
  const none = byId('chat-none');
  const keep = byId<HTMLInputElement>('chat-keep');
  const removeAll = byId<HTMLButtonElement>('chat-remove-all');
  const signOut = byId<HTMLButtonElement>('sign-out');
  const undo = createUndo();
  /** The ID of the chat that is being named. */
  let named: string | undefined;
  let paintings = 0;
  const painter = createPainter(() => void paint());
  const searching = createPainter(() => void paint(), SEARCH_MS);
  const menu = createChatMenu({
    rename(chat) {
      named = chat.id;
      // At once: the next letter is for the field.
      const field = nameField(chat);
      list.querySelector(`[data-chat="${CSS.escape(chat.id)}"]`)?.replaceChildren(field);
      field.select();
    },
    exported: (id) => chats.exported(id),
    async remove(id, title) {
      undo.offer(`“${title}” is deleted.`, withShown(await chats.remove([id])));
    },
  });
  document.body.toggleAttribute('data-chats', canKeep());

  const withShown = (run: () => Promise<void>) => async () => {
    await run();
    onShown();
  };

  function item(chat: ChatRecord): HTMLElement {
    const { id, title } = chat;
    const isOpen = id === chats.openId;
    const open = create(
      'button',
      { type: 'button', className: 'open', dir: 'auto', title },
      title || 'Untitled',
    );
    if (isOpen) open.ariaCurrent = 'page';
    if (id === chats.runningId) open.classList.add('running');
    open.addEventListener('click', () => {
      fold(true);
      onOpen(id);
    });
    const more = create(
      'button',
      { type: 'button', className: 'more', ariaLabel: `More about “${title}”` },
      '⋯',
    );
    more.addEventListener('click', () => menu.show(chat, more));
    const entry = create('li', {}, open, more);
    entry.dataset['chat'] = id;
    return entry;
  }

  function nameField({ id, title }: ChatRecord): HTMLInputElement {
    const field = create('input', { value: title, ariaLabel: 'Title', dir: 'auto', maxLength: 120 });
    const end = (isKept: boolean) => {
      if (named !== id) return;
      named = undefined;
      if (isKept) void chats.rename(id, field.value.trim());
      void paint();
    };
    field.addEventListener('keydown', (event) => {
      if (event.isComposing || (event.key !== 'Enter' && event.key !== 'Escape')) return;
      event.stopPropagation();
      end(event.key === 'Enter');
    });
    field.addEventListener('blur', () => end(true));
    return field;
  }

  async function paint(): Promise<void> {
    const painting = ++paintings;
    const text = search.value.trim();
    const [all, found] = await Promise.all([chats.list(), text === '' ? undefined : chats.search(text)]);
    // A later one has begun, or the user writes in the list.
    if (painting !== paintings || (named !== undefined && list.querySelector('input') !== null)) return;
    const shown = all.filter(({ id }) => found === undefined || found.has(id));
    const groups = new Map<string, ChatRecord[]>();
    for (const chat of shown) {
      const name = dayOf(chat.changedAt);
      groups.set(name, [...(groups.get(name) ?? []), chat]);
    }
    const focused = (document.activeElement as HTMLElement | null)?.closest('#chat-list li');
    const place = focused ? [...list.querySelectorAll('li')].indexOf(focused as HTMLLIElement) : -1;
    list.replaceChildren(
      ...[...groups].flatMap(([name, members]) => [
        create('h3', {}, name),
        create('ul', {}, ...members.map(item)),
      ]),
    );
    // The list must not take the focus with it.
    if (place >= 0) list.querySelectorAll('li')[place]?.querySelector('button')?.focus();
    none.textContent = !chats.isKept
      ? 'Nothing is kept: a chat ends with its tab.'
      : all.length === 0
        ? 'Your chats will be here.'
        : shown.length === 0
          ? 'No chat has these words.'
          : '';
    search.hidden = all.length === 0;
    removeAll.hidden = all.length === 0;
    keep.checked = chats.isKept;
    signOut.hidden = readToken() === undefined;
  }

  function fold(isFolded: boolean): void {
    nav.toggleAttribute('data-open', !isFolded);
    opener.ariaExpanded = String(!isFolded);
  }

  opener.addEventListener('click', () => {
    fold(nav.hasAttribute('data-open'));
    if (nav.hasAttribute('data-open')) (search.hidden ? keep : search).focus();
  });
  byId('chats-close').addEventListener('click', () => {
    fold(true);
    opener.focus();
  });
  nav.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !nav.hasAttribute('data-open')) return;
    event.stopPropagation();
    fold(true);
    opener.focus();
  });
  search.addEventListener('input', searching.soon);
  keep.addEventListener('change', async () => {
    const isKept = keep.checked;
    const putBack = await chats.setKept(isKept);
    if (!isKept) undo.offer('Chats are not kept any more, and those that were are deleted.', putBack);
  });
  removeAll.addEventListener('click', async () => {
    const ids = (await chats.list()).map(({ id }) => id);
    undo.offer(`${count(ids.length, 'chat')} deleted.`, withShown(await chats.remove(ids)));
  });
  signOut.addEventListener('click', async () => {
    await chats.remove((await chats.list()).map(({ id }) => id));
    forgetTab();
    location.reload();
  });
  void paint();

  return {
    update: painter.soon,
    search() {
      if (!chats.isKept) return;
      if (getComputedStyle(nav).position === 'fixed') fold(false);
      search.focus();
    },
  };
}

function dayOf(time: number): string {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (time >= midnight) return 'Today';
  if (time >= midnight - DAY_MS) return 'Yesterday';
  return time >= midnight - 7 * DAY_MS ? 'Last 7 days' : 'Before';
}
