import { Extension } from '../base/constants.js';
import type { Fields } from '../base/fields.js';
import { AgreementCache, type Answer, serverAgreement } from '../control/agreement.js';
import type { HelloPayload, ResumeOffer } from '../control/messages.js';
import { negotiate } from '../control/negotiate.js';
import { LifecycleState } from './lifecycle.js';
import type { ResumeGuard } from './resume-token.js';
import type { RoleHost } from './role.js';
import type { SessionOptions } from './types.js';

/** The answer of a server to a HELLO. */

/** Throws the error of a callback of the application, such as the one for maps or tokens. */
export function answerTo(hello: HelloPayload, options: SessionOptions, isDurable: boolean): Answer {
  const { subprotocol, capabilities, agreements = new AgreementCache() } = options;
  const scope = isDurable ? `${subprotocol} recorded` : subprotocol;
  return agreements.recall(hello, scope, (offer, key) => {
    const outcome = negotiate(offer, capabilities);
    const negotiated = outcome.accepted
      ? serverAgreement(outcome.agreement, offer, options, isDurable)
      : undefined;
    return { offer, key, outcome, negotiated };
  });
}

/** Whether the session can continue from the state that the client has of it. */
export function canGoOn(session: RoleHost, offer: ResumeOffer, guard: ResumeGuard): boolean {
  const { isEstablished, isLost, lifecycle, channel } = session;
  const isOpen = isEstablished || (isLost && lifecycle === LifecycleState.SUSPENDED);
  if (offer.rebuild === true) return isOpen && canRebuild(session, offer, guard);
  if (!needsLink(session, offer, guard)) return true;
  // Another page has taken the session up since.
  if (guard.isOutdated(offer) && channel.isTakenUp === true) return false;
  return isOpen && offer.have !== undefined && channel.canGoOnFrom?.(offer.have, false) === true;
}

/** Whether a page that was loaded again can take the session up. */
function canRebuild({ channel, negotiated }: RoleHost, offer: ResumeOffer, guard: ResumeGuard): boolean {
  if (negotiated?.extensions[Extension.REBUILD] === undefined) return false;
  if (channel.canGoOnFrom === undefined) return channel.canRebuild?.(guard.receivedBy(offer)) === true;
  return offer.have !== undefined && channel.canGoOnFrom(offer.have, true);
}

/** The bodies that the client of a recorded session has, if the session continues from them and not from the link. */
export function haveOf(session: RoleHost, offer: ResumeOffer, guard: ResumeGuard): Fields | undefined {
  const isNeeded = offer.rebuild === true || needsLink(session, offer, guard);
  return isNeeded && session.channel.goOnFrom !== undefined ? offer.have : undefined;
}

/** The client has the link of a page or a process that is gone. */
function needsLink({ channel }: RoleHost, offer: ResumeOffer, guard: ResumeGuard): boolean {
  return guard.isOutdated(offer) || channel.isRestored === true;
}
