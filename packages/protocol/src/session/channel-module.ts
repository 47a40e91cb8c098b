import type { Loadable } from '../base/loadable.js';
import type { decodeJsonEnvelope, encodeJsonEnvelope } from '../control/envelope-json.js';
import type { ControlForms } from '../control/forms.js';
import type { StreamsModule } from '../link/link.js';
import type { ChannelOptions } from './channel-options.js';
import type { ChannelHost, SessionChannel } from './closed-channel.js';

/** The code of a channel that most sessions do not have. */
export interface ChannelModule {
  readonly Channel: new (session: ChannelHost, options: ChannelOptions) => SessionChannel;
}

/** The code of a session without a link or with JSON envelopes. */
export interface PlainModule extends ChannelModule {
  readonly decodeJsonEnvelope: typeof decodeJsonEnvelope;
  readonly encodeJsonEnvelope: typeof encodeJsonEnvelope;
}

/** The code that not every session needs. */
export interface SessionCode {
  /** How it reads and writes control messages. */
  readonly forms: ControlForms;
  /** Without it, the subprotocol has to be binary, and the session needs `openChannel` if the ends agree on no link. */
  readonly plain: PlainModule | undefined;
  /** Frames of streams wait until it is loaded, which the event `streams` asks for. */
  readonly streams: Pick<Loadable<StreamsModule>, 'isLoaded' | 'get'>;
}
