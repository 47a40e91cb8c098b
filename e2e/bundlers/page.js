import { connect } from '@parlance/client';

/** The least that a page does: one message and its echo. */
export async function exchange(url, options) {
  const session = await connect(url, options);
  await session.send('hello');
  for await (const message of session) {
    await session.close();
    return message.text;
  }
}

/** Everything else, in a script that the page loads when it is needed. */
export async function useAll(url, options) {
  const { useSession } = await import('./more.js');
  return await useSession(await connect(url, options));
}
