import type { Scenario } from '../scenario.js';

export const REFUSALS: readonly Scenario[] = [];
