import type { Scenario } from '../scenario.js';
import { AGENT_RULES } from './agent-rules.js';
import { AGENTS } from './agents.js';
import { AGREEMENT } from './agreement.js';
import { AUTH } from './auth.js';
import { CANCEL } from './cancel.js';
import { CLIENT_HANDSHAKE } from './client-handshake.js';
import { CLOSING } from './closing.js';
import { CODECS } from './codecs.js';
import { CONTEXT } from './context.js';
import { CREDIT } from './credit.js';
import { DURABLE } from './durable.js';
import { DURABLE_PAGES } from './durable-pages.js';
import { EARLY_HELLO } from './early-hello.js';
import { FRAGMENTS } from './fragments.js';
import { GOAWAY } from './goaway.js';
import { HTTP_CLIENTS } from './http-clients.js';
import { HTTP_SERVERS } from './http-servers.js';
import { MESSAGES } from './messages.js';
import { NONCE } from './nonce.js';
import { PLAIN } from './plain.js';
import { READY } from './ready.js';
import { REBUILD } from './rebuild.js';
import { REFUSALS } from './refusals.js';
import { REPLIES } from './replies.js';
import { RESUME } from './resume.js';
import { RESUME_REFUSALS } from './resume-refusals.js';
import { RULES } from './rules.js';
import { SERVER_HANDSHAKE } from './server-handshake.js';
import { STREAMS } from './streams.js';
import { TENSORS } from './tensors.js';

export const SCENARIOS: readonly Scenario[] = [
  ...SERVER_HANDSHAKE,
  ...EARLY_HELLO,
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
  ...NONCE,
  ...REFUSALS,
  ...CLOSING,
  ...AGREEMENT,
  ...RULES,
  ...AUTH,
  ...READY,
  ...GOAWAY,
  ...AGENTS,
  ...AGENT_RULES,
  ...REPLIES,
  ...REBUILD,
  ...DURABLE,
  ...DURABLE_PAGES,
  ...PLAIN,
  ...HTTP_SERVERS,
  ...HTTP_CLIENTS,
];
