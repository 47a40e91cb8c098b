import { exchange, share, useAll } from './page.js';

Object.assign(globalThis, { exchange, share, useAll });
