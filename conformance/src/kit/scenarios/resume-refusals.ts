import type { Scenario } from '../scenario.js';

export const RESUME_REFUSALS: readonly Scenario[] = [];
