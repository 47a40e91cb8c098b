import { byId, create } from '../../shared/dom.js';
import { download, type Exported, jsonOf, markdownOf } from './export.js';
import type { ChatRecord } from './library.js';

/** The menu of actions for a chat of the list. */
export interface ChatMenu {
  /** @param opener the button beside which the menu opens. */
  show(chat: ChatRecord, opener: HTMLElement): void;
}

export interface ChatMenuEvents {
  rename(chat: ChatRecord): void;
  exported(id: string): Promise<Exported | undefined>;
  remove(id: string, title: string): Promise<void>;
}

export function createChatMenu({ rename, exported, remove }: ChatMenuEvents): ChatMenu {
  const menu = byId('chat-menu');
  let shown: ChatRecord | undefined;
  const add = (label: string, run: (chat: ChatRecord) => unknown) => {
    const button = create('button', { type: 'button' }, label);
    button.addEventListener('click', () => {
      menu.hidePopover();
      if (shown !== undefined) void run(shown);
    });
    menu.append(button);
  };
  const save = (extension: 'md' | 'json', write: (each: Exported) => string) => async (chat: ChatRecord) => {
    const found = await exported(chat.id);
    if (found !== undefined) download(chat.title, extension, write(found));
  };
  add('Rename', rename);
  add('Export as Markdown', save('md', markdownOf));
  add('Export as JSON', save('json', jsonOf));
  add('Delete', ({ id, title }) => remove(id, title));

  return {
    show(chat, opener) {
      shown = chat;
      const { left, bottom } = opener.getBoundingClientRect();
      menu.showPopover();
      const { width, height } = menu.getBoundingClientRect();
      menu.style.left = `${Math.max(0, Math.min(left, window.innerWidth - width))}px`;
      menu.style.top = `${Math.max(0, Math.min(bottom, window.innerHeight - height))}px`;
      menu.querySelector('button')?.focus();
    },
  };
}
