//go:build !nightly

package discover_test

// migrations is how many random clusters TestMigration plans.
const migrations = 6
