import type { Scenario } from '../scenario.js';
import { AGENTS } from './agents.js';
import { AUTH } from './auth.js';
import { CANCEL } from './cancel.js';
import { CLIENT_HANDSHAKE } from './client-handshake.js';
import { CLOSING } from './closing.js';
import { CODECS } from './codecs.js';
import { CONTEXT } from './context.js';
import { CREDIT } from './credit.js';
import { DURABLE } from './durable.js';
import { FRAGMENTS } from './fragments.js';
import { GOAWAY } from './goaway.js';
import { MESSAGES } from './messages.js';
import { READY } from './ready.js';
import { REBUILD } from './rebuild.js';
import { REFUSALS } from './refusals.js';
import { REPLIES } from './replies.js';
import { RESUME } from './resume.js';
import { RESUME_REFUSALS } from './resume-refusals.js';
import { SERVER_HANDSHAKE } from './server-handshake.js';
import { STREAMS } from './streams.js';
import { TENSORS } from './tensors.js';

export const SCENARIOS: readonly Scenario[] = [
  ...SERVER_HANDSHAKE,
  ...CLIENT_HANDSHAKE,
  ...STREAMS,
  ...MESSAGES,
  ...CANCEL,
  ...CREDIT,
  ...FRAGMENTS,
  ...CODECS,
  ...CONTEXT,
  ...TENSORS,
  ...RESUME,
  ...RESUME_REFUSALS,
  ...REFUSALS,
  ...CLOSING,
  ...AUTH,
  ...READY,
  ...GOAWAY,
  ...AGENTS,
  ...REPLIES,
  ...REBUILD,
  ...DURABLE,
];
