import type { Scenario } from '../scenario.js';

export const CODECS: readonly Scenario[] = [];
