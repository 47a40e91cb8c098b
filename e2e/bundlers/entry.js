import { exchange, useAll } from './page.js';

Object.assign(globalThis, { exchange, useAll });
