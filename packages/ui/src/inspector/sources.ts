import type { InspectionEvent } from '@parlance/client/inspect';
import { lockOf, openChannel } from '../shared/channel.js';
import { count } from '../shared/format.js';
import { randomName } from '../shared/profile.js';
import { readCapture } from './capture.js';

/** Where an inspector gets its events: chat pages of the same origin, captures, and the command line. */

export interface ChatPage {
  readonly page: string;
  readonly title: string;
}

export interface ChatPages {
  readonly all: readonly ChatPage[];
  /** Watches this page only, from the beginning of what it has. */
  watch(page: string): void;
  unwatch(): void;
}

/**
 * @param onChange a page has come or gone.
 * @param onEvents called with the events of the page that is watched.
 */
export function findChatPages(
  onChange: () => void,
  onEvents: (events: readonly InspectionEvent[]) => void,
): ChatPages {
  const inspector = randomName();
  const pages = new Map<string, ChatPage>();
  let watched: string | undefined;
  const channel = openChannel((message) => {
    if (message.type === 'page') {
      pages.set(message.page, { page: message.page, title: message.title });
      onChange();
    } else if (message.type === 'gone') {
      pages.delete(message.page);
      onChange();
    } else if (message.type === 'events' && message.inspector === inspector && message.page === watched) {
      onEvents(message.events);
    }
  });
  const unwatch = () => {
    if (watched !== undefined) channel.send({ type: 'unwatch', page: watched, inspector });
    watched = undefined;
  };
  window.addEventListener('pagehide', unwatch);
  channel.send({ type: 'who' });
  // Pages stop to explain their frames when it is free.
  const held = holdLock(lockOf(inspector));
  return {
    get all() {
      return [...pages.values()];
    },
    watch(page) {
      unwatch();
      watched = page;
      void held.then(() => {
        if (watched === page) channel.send({ type: 'watch', page, inspector });
      });
    },
    unwatch,
  };
}

/** Resolves once the lock is held, which lasts as long as this page. */
async function holdLock(name: string): Promise<void> {
  await new Promise<void>((resolve) => {
    if (navigator.locks === undefined) resolve();
    else
      void navigator.locks.request(name, () => {
        resolve();
        return new Promise<never>(() => {});
      });
  });
}

/** Something that ends, and says how. */
export interface Reading {
  readonly done: Promise<string>;
  stop(): void;
}

export function readFile(file: File, onEvents: (events: readonly InspectionEvent[]) => void): Reading {
  const controller = new AbortController();
  const read = async () => {
    const { events, skipped, damaged, problem } = await readCapture(
      file.stream(),
      onEvents,
      controller.signal,
    );
    const notes = [
      count(events, 'event'),
      ...(skipped === 0 ? [] : [`${count(skipped, 'line')} of other events`]),
      ...(damaged === 0 ? [] : [`${count(damaged, 'line')} could not be read (${problem})`]),
    ];
    return notes.join(', ');
  };
  return { done: read(), stop: () => controller.abort() };
}

/** Reads what `parlance connect --ui` sees, until the command ends. */
export function readFeed(key: string, onEvents: (events: readonly InspectionEvent[]) => void): Reading {
  const controller = new AbortController();
  const { signal } = controller;
  const read = async () => {
    try {
      const response = await fetch('./events', { headers: { authorization: `Bearer ${key}` }, signal });
      if (!response.ok || response.body === null)
        return `The command answers ${response.status}: open the address that it has printed`;
      await readCapture(response.body, onEvents, signal);
      return 'The command has ended';
    } catch {
      return 'The command has ended';
    }
  };
  return { done: read(), stop: () => controller.abort() };
}
