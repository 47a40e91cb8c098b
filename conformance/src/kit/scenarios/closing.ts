import type { Scenario } from '../scenario.js';

export const CLOSING: readonly Scenario[] = [];
