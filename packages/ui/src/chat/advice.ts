import type { ProtocolError } from '@parlance/client';

/**
 * Tells the user what to do about a refused session. Loaded when that happens.
 *
 * @param isUnknown the server does not know who the page is.
 */
export function adviceFor(error: ProtocolError, isUnknown: boolean): string {
  switch (error.reject?.code) {
    case 'SECURITY_POLICY':
      return isUnknown
        ? 'The server requires credentials, and this page has none.'
        : `The server does not admit pages from ${location.origin}. Its operator can add that address to the “origins” option, or you can open the page at the server’s own address.`;
    case 'NO_COMMON_ALGORITHM':
      return 'This page and the server have no codec in common. The operator of the server can enable one that this page offers.';
    case 'VERSION_MISMATCH':
      return 'This page and the server use different versions of the protocol. Update the older one.';
    case 'RATE_LIMITED':
      return 'There are too many sessions or attempts from your address or of your account. This page waits and then tries again by itself.';
    case 'SERVER_BUSY':
      return 'The server cannot take this session at present. This page tries again by itself.';
    case undefined:
      return adviceForFailure(error);
    default:
      return 'Ask the operator of the server; the code below states the reason.';
  }
}

function adviceForFailure(error: ProtocolError): string {
  switch (error.code) {
    case 'invalid_option':
      return 'This address is not valid. A valid one looks like ?server=ws://127.0.0.1:8765/session.';
    case 'codec_not_loaded':
    case 'vocabulary_unavailable':
    case 'vocabulary_mismatch':
      return 'A part of this page could not be loaded. Check your connection, then reload the page.';
    default:
      return 'The server answered in a way that this page does not understand. Is it a Parlance server of the same version?';
  }
}
