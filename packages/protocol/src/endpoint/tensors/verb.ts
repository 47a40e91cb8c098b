import { parts } from '#parts';
import { called } from '../../base/callbacks.js';
import { NONE } from '../call-options.js';
import type { Session } from '../session.js';
import { recipientOf, type UserSessionHost } from '../user-session-host.js';
import type { Verbs } from '../verbs.js';

/** `session.sendTensor`. */

export const tensorVerbs = {
  name: 'tensors',
  verbs: {
    sendTensor: (host, tensor, options = NONE) =>
      called(async () => {
        if (options !== NONE) (await parts.tensors.load()).assertSendTensorOptions(options);
        options.signal?.throwIfAborted();
        const address = recipientOf(host, options.to);
        await host.outbound.perform(
          async (outbound, endpoint) => {
            if (!parts.tensors.isLoaded || !parts.requests.isLoaded) {
              await Promise.all([parts.tensors.load(), parts.requests.load()]);
              outbound.assertOpen();
            }
            await parts.tensors.get().tensorSenderOf(outbound, endpoint).send(tensor, address, options);
          },
          { ...options, what: 'tensors' },
        );
      }),
  } satisfies Verbs<Session, UserSessionHost>,
};
