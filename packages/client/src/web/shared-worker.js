// Where pages that are built from the sources find the script of the worker; the package has a bundle in its place.
import '../shared-worker.ts';
