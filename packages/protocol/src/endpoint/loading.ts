import { platform } from '#platform';
import { type ProtocolError, toProtocolError } from '../base/errors.js';
import { type LoadableCodec, loadCodecs } from '../codec/load.js';
import type { Negotiated } from '../control/agreement.js';
import type { SessionCore } from '../session/types.js';
import { getEncoding, loadEncoding } from '../tokenizer/load.js';
import type { EndpointOptions } from './endpoint-options.js';
import { type Crashable, guardLater } from './guard.js';

export interface LoadingHost extends Crashable {
  readonly core: SessionCore;
  readonly options: EndpointOptions;
  readonly negotiated: Negotiated;
  /** All codecs are loaded before the first session begins, as a server does it. */
  readonly isPreloaded: boolean;
  abort(error: ProtocolError): void;
}

/**
 * Loads the codecs and the vocabulary that the two ends agreed on, then calls `start`. The core holds
 * received frames meanwhile. A failure ends the session.
 */
export function loadAgreed(host: LoadingHost, start: () => void): void {
  const { core, negotiated, options } = host;
  const hasContext = core.channel.contextUse !== undefined;
  if (host.isPreloaded && isLoaded(negotiated, hasContext)) return start();
  options.onAccepted?.();
  core.holdFrames();
  const loaded = load(negotiated, hasContext).then(
    () => {
      if (core.state !== 'closed') start();
    },
    (error: unknown) => {
      if (core.state === 'closed') return;
      host.abort(toProtocolError(error, 'internal', 'loading the codecs of the session failed'));
    },
  );
  guardLater(host, loaded);
}

/** @param hasContext whether bodies are coded in context. */
function isLoaded({ encoding }: Negotiated, hasContext: boolean): boolean {
  return (
    (encoding === null || getEncoding(encoding) !== undefined) && (!hasContext || platform.isZstdLoaded())
  );
}

/** Rejects if a file or a module cannot be loaded. */
async function load({ algorithms, encoding }: Negotiated, hasContext: boolean): Promise<void> {
  const codecs: LoadableCodec[] = hasContext ? [...algorithms, 'CONTEXT'] : [...algorithms];
  await Promise.all([loadCodecs(codecs), encoding === null ? undefined : loadEncoding(encoding)]);
}
