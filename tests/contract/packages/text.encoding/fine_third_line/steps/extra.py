#
#
# coding: latin-1
X = 1
