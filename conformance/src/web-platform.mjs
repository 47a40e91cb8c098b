/** For `--import`: runs the browser's side of `@parlance/protocol` under Node. */
import { register } from 'node:module';

register('./web-platform-hooks.mjs', import.meta.url);
