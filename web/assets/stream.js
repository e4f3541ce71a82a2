// The stream begins before the views are there: who waits for the first picture waits for both at once.
import { connect } from "./store.js";

connect();
