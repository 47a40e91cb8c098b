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

export const PAGE_BUDGETS: readonly PageBudget[] = [
  {
    page: 'send',
    title: 'connect, send and for await',
    entry: '60.7 kB',
    atFirstMessage: { bytes: 61_700, requests: 5 },
    afterIdle: { bytes: 90_800, requests: 9 },
  },
  {
    page: 'chat',
    title: 'a chat with session.fetch and context',
    entry: '61.0 kB',
    atFirstMessage: { bytes: 69_400, requests: 10 },
    afterIdle: { bytes: 95_100, requests: 11 },
  },
];
