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

/** A session that tabs share: where it is, and an answer. */
export async function share(url, options) {
  const events = [];
  const log = ({ event }) => events.push(event);
  const logger = { debug: log, info: log, warn: log, error: log };
  const sessions = await Promise.all([1, 2].map(() => connect(url, { ...options, shared: true, logger })));
  const [one, two] = sessions;
  const { text } = await one.request('why?');
  const isShared = one.id === two.id;
  for (const session of sessions) await session.close();
  const host = events.includes('shared.alone') ? 'none' : events.includes('shared.worker') ? 'tab' : 'worker';
  return { text, isShared, host };
}
