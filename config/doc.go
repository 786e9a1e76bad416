// Package config reads tmpproxy's settings: a YAML file, environment variables and flags become one [Config], or one [Error]
// that lists every fault at once.
//
// A flag wins over the environment, the environment over the file, the file over the default. The table of keys is the only
// place where a setting is named: flags, variables, defaults and config.yaml follow it.
//
// Left out on purpose: nothing here is looked up on the network or applied to anything, files are not watched, and words such as
// a strategy's name stay strings. Whoever uses a setting turns it into its own type.
package config
