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

/** The chat page of `parlance serve`, with all that it loads before the first question is written. */
export const CHAT_PAGE_BUDGET: Transfer = { bytes: 120_000, requests: 5 };

/**
 * The most minified bytes of each room in the entry of the page `send`, with the sentences of errors: `bench -- page --modules`
 * lists them. A hook in a room that every page loads shows here. A room that is not listed may have {@link MAX_OTHER_ROOM}.
 */
export const ROOM_BUDGETS: Readonly<Record<string, number>> = {
  'protocol/session': 33_400,
  'protocol/endpoint': 31_500,
  'protocol/link': 31_500,
  'protocol/base': 26_050,
  'protocol/endpoint/messages': 12_900,
  'protocol/control': 10_600,
  'client/reconnect': 8_700,
  '(bundler)': 8_650,
  'client/connection': 7_900,
  client: 4_900,
  'protocol/codec': 3_800,
  'protocol/base/msgpack': 2_700,
  'client/session': 4_100,
  'protocol/endpoint/requests': 2_500,
  'protocol/codec/context': 1_000,
  'protocol/platform': 900,
  'protocol/endpoint/http': 500,
};
export const MAX_OTHER_ROOM = 400;

export const PAGE_BUDGETS: readonly PageBudget[] = [
  {
    page: 'send',
    title: 'connect, send and for await',
    entry: '61.6 kB',
    atFirstMessage: { bytes: 62_850, requests: 6 },
    afterIdle: { bytes: 100_100, requests: 13 },
  },
  {
    page: 'chat',
    title: 'a chat with session.fetch and context',
    entry: '62 kB',
    // A file of 2.9 kB, which is counted, arrives just before the first message is shown, or just after it.
    atFirstMessage: { bytes: 76_400, requests: 13 },
    afterIdle: { bytes: 104_800, requests: 15 },
  },
];
