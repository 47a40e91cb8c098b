import type { Message } from '@parlance/client';
import type { Undelivered } from '@parlance/protocol';

/** The part of a session that users and agents of the chaos need, so that a client in another language can be one. */
export interface ChaosSession {
  readonly id: string;
  readonly state: string;
  on(event: 'reset', listener: (reset: { readonly code: string; readonly reason: string }) => void): unknown;
  on(event: 'error', listener: (error: { readonly code: string; readonly message: string }) => void): unknown;
  on(event: 'state', listener: (state: string) => void): unknown;
  on(event: 'undelivered', listener: (report: Undelivered) => void): unknown;
  send(text: string, options?: { readonly to?: string }): Promise<unknown>;
  stream(body: object, options?: { readonly to?: string }): ChaosReply;
  follow(reply: string, options: { readonly after: number }): ChaosReply;
  agents(): Promise<{ get(name: string): unknown }>;
  flush(): Promise<unknown>;
  detach(): Promise<unknown>;
  close(): Promise<unknown>;
  [Symbol.asyncIterator](): AsyncIterator<Pick<Message, 'from' | 'text' | 'isRedelivered'>>;
}

export interface ChaosReply extends AsyncIterable<{ readonly text: string }> {
  readonly keptId?: string | undefined;
  readonly position: number;
}
