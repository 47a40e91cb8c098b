import type { Metadata } from '../messages/metadata.js';
import type { Part } from '../messages/part.js';
import type { Session } from '../session.js';

/** Answers a request for the body of another request. */
export type PullHandler = (
  request: { readonly from: string | undefined },
  context: { readonly session: Session; readonly metadata: Metadata; readonly signal: AbortSignal },
) => AsyncIterable<Part>;

export interface Pulls {
  answer?: PullHandler;
}

/** Known once a body is offered: a page loads the code for bodies that are streamed with the first of them. */
export const pulls: Pulls = {};
