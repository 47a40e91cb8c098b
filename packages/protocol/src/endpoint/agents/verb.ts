import { parts } from '#parts';
import { called } from '../../base/callbacks.js';
import { DIRECTORY } from '../../base/constants.js';
import { NONE } from '../call-options.js';
import type { Session } from '../session.js';
import type { UserSessionHost } from '../user-session-host.js';
import type { Verbs } from '../verbs.js';

/** `session.agents`. */

export const agentVerbs = {
  agents: (host) =>
    called(async () => {
      const { askForAgents } = await parts.agents.load();
      return await askForAgents((query) => host.outbound.stream(query, NONE, DIRECTORY));
    }),
} satisfies Verbs<Session, UserSessionHost>;
