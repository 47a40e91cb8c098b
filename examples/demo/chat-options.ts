import { createHash } from 'node:crypto';
import { decodeHttpRequest } from '@parlance/protocol';
import { keptReplies, type ServerOptions } from '@parlance/server';

/** What the chat page needs of its session server so that answers survive a reload. */
export const CHAT_OPTIONS: Pick<ServerOptions, 'authenticate' | 'features'> = {
  /**
   * Each browser profile is a principal: it has made up its token. That tells profiles apart and proves nothing; an
   * application with users verifies the token of their login here.
   */
  authenticate: ({ token }) =>
    token !== undefined && /^[0-9a-f]{32}$/.test(token) ? { principal: `profile-${digest(token)}` } : null,
  features: [
    keptReplies({
      /** Keeps what the page names, whether the embedded responder or an API answers. */
      keep(_request, { metadata }) {
        const name = decodeHttpRequest(metadata)?.headers.get('x-parlance-reply-name');
        return name !== undefined && { name };
      },
    }),
  ],
};

/** Names of principals appear in logs, and tokens must not. */
function digest(token: string): string {
  return createHash('sha256').update(token).digest('hex').slice(0, 16);
}
