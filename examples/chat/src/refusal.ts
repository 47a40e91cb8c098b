import type { ProtocolError } from '@parlance/client';

/** What a person can do about a server, or a page, that cannot go on. */
export function adviceFor(error: ProtocolError, origin: string): string {
  switch (error.reject?.code) {
    case 'SECURITY_POLICY':
      return error.closeCode === UNAUTHENTICATED
        ? 'The server wants to know who you are, and this page has no credentials to show.'
        : `The server does not admit pages from ${origin}. Whoever runs it can add that address to its “origins”, or open the page at the server’s own address.`;
    case 'NO_COMMON_ALGORITHM':
      return 'This page and the server have no codec in common. Whoever runs the server can switch on one of those that this page offers.';
    case 'VERSION_MISMATCH':
      return 'This page and the server speak different versions of the protocol. Update the older of the two.';
    case 'RATE_LIMITED':
      return 'Too many connections came from here in a short time. This page waits a little and then tries again by itself.';
    case 'SERVER_BUSY':
      return 'The server is full, or about to stop. This page tries again by itself.';
    case undefined:
      return adviceForFailure(error);
    default:
      return 'Ask whoever runs the server; the code below tells them why.';
  }
}

const UNAUTHENTICATED = 4401;

function adviceForFailure(error: ProtocolError): string {
  switch (error.code) {
    case 'invalid_option':
      return 'No connection can be opened to this address. One that works looks like ?server=ws://127.0.0.1:8765/session.';
    case 'codec_not_loaded':
    case 'vocabulary_unavailable':
    case 'vocabulary_mismatch':
      return 'A part of this page did not arrive. Check your connection, then reload the page.';
    default:
      return 'The server answers, but not in a way that this page understands. Is it a Parlance server of the same version?';
  }
}
