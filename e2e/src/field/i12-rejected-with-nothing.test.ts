import { connect } from '@parlance/client';
import { createServer } from '@parlance/server';
import { expect, it } from 'vitest';

it('connect rejects with the reason of the application, also if that is nothing', async () => {
  await using server = createServer();
  const { url } = await server.listen({ port: 0, host: '127.0.0.1' });
  const outcome = (options: Parameters<typeof connect>[1]): Promise<unknown> =>
    connect(url, options).catch((reason) => [reason]);
  expect(await outcome({ signal: AbortSignal.abort(null) })).toEqual([null]);
  expect(await outcome({ token: () => Promise.reject() })).toEqual([undefined]);
});
