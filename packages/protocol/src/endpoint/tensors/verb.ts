import { parts } from '#parts';
import { called } from '../../base/callbacks.js';
import { NONE } from '../call-options.js';
import type { Session } from '../session.js';
import type { UserSessionHost } from '../user-session-host.js';
import type { Verbs } from '../verbs.js';

/** `session.sendTensor`. */

export const tensorVerbs = {
  sendTensor: (host, tensor, options = NONE) =>
    called(async () => {
      const { tensors } = parts;
      const { sendTensor } = tensors.isLoaded ? tensors.get() : await tensors.load();
      await sendTensor(host, tensor, options);
    }),
} satisfies Verbs<Session, UserSessionHost>;
