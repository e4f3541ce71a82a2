// Package kai has the kinds and keys of the KAI scheduler, and reads its objects.
package kai
