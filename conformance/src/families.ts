import { avpFrame } from './avp-frame.js';
import { avpHandshake } from './avp-handshake.js';
import { avpInvalid } from './avp-invalid.js';
import { avpKvCache } from './avp-kv-cache.js';
import { avpSizes } from './avp-sizes.js';
import type { Family } from './family.js';
import { m2mCrypto } from './m2m-crypto.js';
import { m2mFrame } from './m2m-frame.js';
import { m2mLegacy } from './m2m-legacy.js';
import { m2mMessages } from './m2m-messages.js';
import { m2mSecure } from './m2m-secure.js';
import { sessionSnapshot } from './session-snapshot.js';
import { tokenizer } from './tokenizer.js';

/** Every family that the runner knows, in the order of execution. */
export const FAMILIES: readonly Family[] = [
  m2mFrame,
  m2mSecure,
  m2mCrypto,
  m2mLegacy,
  m2mMessages,
  avpFrame,
  avpInvalid,
  avpKvCache,
  avpHandshake,
  avpSizes,
  tokenizer,
  sessionSnapshot,
];
