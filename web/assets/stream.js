// The table is taken as soon as it is there, and the views when they are.
import { begin } from "./store.js";

begin();
