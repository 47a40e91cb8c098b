import type { InspectionEvent } from '@parlance/client/inspect';

/** How inspectors and chat pages of one origin talk, over a `BroadcastChannel`. */

const NAME = 'parlance-inspector';

export type ChannelMessage =
  /** An inspector asks which pages there are. */
  | { readonly type: 'who' }
  /** A page is there. */
  | { readonly type: 'page'; readonly page: string; readonly title: string }
  | { readonly type: 'gone'; readonly page: string }
  /** An inspector wants what the page has recorded, and everything from now on. */
  | { readonly type: 'watch'; readonly page: string; readonly inspector: string }
  | { readonly type: 'unwatch'; readonly page: string; readonly inspector: string }
  | {
      readonly type: 'events';
      readonly page: string;
      readonly inspector: string;
      readonly events: readonly InspectionEvent[];
    };

export interface Channel {
  send(message: ChannelMessage): void;
}

/** @param onMessage called with the messages of other pages. */
export function openChannel(onMessage: (message: ChannelMessage) => void): Channel {
  const channel = new BroadcastChannel(NAME);
  channel.addEventListener('message', ({ data }) => {
    // Pages of other versions may use the same name.
    if (typeof data === 'object' && data !== null && data.version === VERSION) onMessage(data);
  });
  return { send: (message) => channel.postMessage({ ...message, version: VERSION }) };
}

const VERSION = 1;

/** The lock that an inspector holds as long as it is open. */
export function lockOf(inspector: string): string {
  return `${NAME} ${inspector}`;
}
