/** The most that browser pages may download, in one place. `npm run check` fails above it. */

export interface PageBudget {
  /** A file in `pages/`, without its extension. */
  readonly page: string;
  readonly title: string;
  /** Entry with its static imports after `gzip -9`, as size-limit measures it. */
  readonly entry: string;
  /** In Chromium, up to the first message. */
  readonly atFirstMessage: Transfer;
  /** In Chromium, with everything that the page loads once it is idle. */
  readonly afterIdle: Transfer;
}

export interface Transfer {
  /** Compressed bodies and response headers, without the document and the WebSocket. */
  readonly bytes: number;
  readonly requests: number;
}

/**
 * The most minified bytes of each room in the entry of the page `send`, with the sentences of errors: `bench -- page --modules`
 * lists them. A hook in a room that every page loads shows here. A room that is not listed may have {@link MAX_OTHER_ROOM}.
 */
export const ROOM_BUDGETS: Readonly<Record<string, number>> = {
  'protocol/session': 31_900,
  'protocol/endpoint': 31_700,
  'protocol/link': 31_300,
  'protocol/base': 22_100,
  'protocol/endpoint/messages': 10_800,
  'protocol/control': 10_400,
  'client/survival': 7_900,
  '(bundler)': 6_900,
  'client/connection': 5_600,
  client: 4_100,
  'protocol/codec': 3_800,
  'protocol/base/msgpack': 2_700,
  'client/session': 2_100,
  'protocol/endpoint/requests': 1_300,
  'protocol/codec/context': 1_000,
  'protocol/platform': 900,
};
export const MAX_OTHER_ROOM = 400;

export const PAGE_BUDGETS: readonly PageBudget[] = [
  {
    page: 'send',
    title: 'connect, send and for await',
    entry: '54.9 kB',
    atFirstMessage: { bytes: 55_900, requests: 5 },
    afterIdle: { bytes: 90_400, requests: 11 },
  },
  {
    page: 'chat',
    title: 'a chat with session.fetch and context',
    entry: '55.3 kB',
    // One file of 2.9 kB arrives just before the first message is shown, or just after it.
    atFirstMessage: { bytes: 69_000, requests: 12 },
    afterIdle: { bytes: 94_700, requests: 13 },
  },
];
