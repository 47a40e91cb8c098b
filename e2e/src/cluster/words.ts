import { type Feature, ProtocolError } from '@parlance/server';

/** Counts the words that each session has said, wherever it goes. A request with `{ what: 'words' }` is answered with the number. */
export const words = (): Feature => ({
  name: 'words',
  install(host) {
    const counts = host.slot(() => ({ words: 0 }));
    return {
      handled(session, message) {
        counts.of(session).words += message.text.split(' ').length;
        host.changed(session);
      },
      save: (session) => counts.peek(session)?.words,
      load(saved) {
        if (typeof saved !== 'number') throw new ProtocolError('bad_message', 'words: a number is expected');
        return (session) => void counts.set(session, { words: saved });
      },
      wrap: (next) => (message, context) => {
        if (context.metadata['what'] !== 'words') return next(message, context);
        const session = host.find(context.session.id);
        return `${(session && counts.peek(session)?.words) ?? 0}`;
      },
    };
  },
});
