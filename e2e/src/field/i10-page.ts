import * as client from '@parlance/client';

/** A page whose tests use the client themselves. */
export interface ClientPage {
  readonly client: typeof client;
}

Object.assign(globalThis, { client } satisfies ClientPage);
