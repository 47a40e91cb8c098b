import { loaded } from '../base/loadable.js';
import { ALL_FORMS } from '../control/envelope.js';
import { LinkStreams } from '../link/link-streams.js';
import type { SessionCode } from './channel-module.js';
import * as plain from './plain-module.js';

/** All code of a session, as servers have it from the start. */
export const ALL_CODE: SessionCode = { forms: ALL_FORMS, plain, streams: loaded({ LinkStreams }) };
