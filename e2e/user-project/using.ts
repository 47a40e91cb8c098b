import { connect } from '@parlance/client';
import { options, security, show } from './client.js';

/** A session that is closed at the end of its block, for compilers whose `lib` has `esnext.disposable`. */

export async function whole(url: string): Promise<string> {
  await using session = await connect(url, { ...options, security, reconnect: false });
  const response = await session.fetch('/v1/models');
  const reply = await session.request('why is the sky blue?', { timeoutMs: 1_000 });
  return response.ok ? reply.text : show(new Error('no models'));
}

/** A session is what its platform calls disposable. */
export async function opened(url: string): Promise<AsyncDisposable> {
  return await connect(url, options);
}
