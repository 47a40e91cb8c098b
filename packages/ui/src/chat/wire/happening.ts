import type { CodedSelection } from '@parlance/client/inspect';

/** How many of them a page keeps. */
export const MAX_HAPPENINGS = 5_000;

/** An event of a socket. Times are Unix milliseconds. */
export type Happening = { readonly at: number; readonly connection: number } & (
  | { readonly type: 'opening'; readonly url: string }
  | { readonly type: 'open' }
  | {
      readonly type: 'frame';
      readonly direction: 'sent' | 'received';
      readonly frame: Uint8Array | string;
      readonly selection: CodedSelection | undefined;
    }
  | { readonly type: 'closed'; readonly code: number; readonly reason: string }
);
