//go:build !linux

package mps

import "github.com/cotenant/cotenant/sharing"

func networkFileSystem(string) sharing.Answer { return sharing.AnswerUnknown }
