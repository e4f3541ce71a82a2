// The table is read before the views are there: who waits for the first picture waits for both at once.
import { begin } from "./store.js";

begin();
