#!/usr/bin/python
# vim: set fileencoding=utf-7 :
X = 1
